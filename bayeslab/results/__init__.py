"""What a fit says: the verdict, the summary, predictions and their rendering."""
