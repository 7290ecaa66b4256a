"""The only code that opens files: model files, tables and arrays, run folders."""
