//! Frames to requests, and completions to frames.
