"""The Realtime vocabulary over websocket and WebRTC, and the moshi protocol of `/api/chat`."""
