"""Memory and machine: what is there, what work costs, how it is planned, packed and limited."""
