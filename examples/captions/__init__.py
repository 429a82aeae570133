"""A server of captions: a page with a microphone, a WebSocket for live audio, and OpenAI's transcription of files."""
