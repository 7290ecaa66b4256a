"""Hidden chains with observed parts: starts, fits, numbering of states, and predictions."""
