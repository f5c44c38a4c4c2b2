"""Checkpoints on disk: found by name, verified tensor by tensor, loaded through a memory map.

`locate` and `hub` find the files, `config` and `fit` read and check `config.json`, `schema` says
which tensors there must be, `tensors` verifies and reads them, `load` builds the modules, `write`
writes a checkpoint in the same layout.
"""
