"""The overlap of texts: ROUGE, the greedy oracle of a document, and the target of each segment."""
