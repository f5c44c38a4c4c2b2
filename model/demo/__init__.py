"""The recipe of the bundled demo checkpoint: speech, codec, language model, figures, export.

`python -m model.demo corpus | train | evaluate | export`. Trains the modules of `model/` themselves
and knows nothing of calls, rooms or sockets.
"""
