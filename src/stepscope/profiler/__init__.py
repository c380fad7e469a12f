"""TensorFlow's older profiler: its verbs and options, over recording and reading."""
