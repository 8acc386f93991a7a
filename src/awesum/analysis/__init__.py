"""The analysis of a document before generation: sentences, vectors, segments, salience, selection.

Pure values and the functions that compute them; nothing here depends on a generating model.
"""
