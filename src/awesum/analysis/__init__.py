"""What is known of a document before anything is written: sentences, vectors, segments, salience, selection.

Pure values and the functions that make them; nothing here knows a model that writes.
"""
