"""Memory and machine: what is available, what work costs, and how it is planned, packed and limited."""
