"""The end-to-end and load driver: an honest verdict on any server of the Realtime duplex protocol.

It speaks the raw wire (or joins rooms) and knows nothing of this project's server, so that it can
be pointed at another implementation and the reports compared line by line.
"""
