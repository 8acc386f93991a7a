"""What writes: engines that answer the prompts of many sessions side by side.

`causal` continues texts, one token of every row at a time; `seq2seq` leads an encoder-decoder from segment to segment.
"""
