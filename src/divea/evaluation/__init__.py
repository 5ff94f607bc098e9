"""What gold links say about a result; no other package sees them."""
