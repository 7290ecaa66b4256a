"""The density machine: a log density and its gradient as a program for one precompiled interpreter."""
