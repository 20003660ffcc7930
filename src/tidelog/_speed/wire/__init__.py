"""Native code on connections: framing, sessions, the produce shortcut, answers that wait."""
