"""The results of a fit: the verdict, the summary, predictions and their rendering."""
