"""What learning can promise: numbers of examples, of hypotheses, of mistakes. Plain functions, no models."""
