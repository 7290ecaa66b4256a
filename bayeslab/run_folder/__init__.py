"""Run folders on disk: inputs, chains, results, and the lock of the process that works on the run."""
