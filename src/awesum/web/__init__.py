"""`awesum serve`: a page and an API on the user's own machine.

`server` opens the port and `guard` decides who may come in; `api` answers; `jobs` reads and writes summaries with one
engine for everybody; `store` keeps documents and summaries in one private folder. The page itself is plain HTML, CSS
and JavaScript in `page/`.
"""
