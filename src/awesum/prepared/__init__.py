"""Prepared datasets: what `awesum data prepare` makes of documents with reference summaries, and how it is read."""
