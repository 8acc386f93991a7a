"""Prepared datasets: written by `awesum data prepare`, read by training."""
