"""The API of TensorFlow's older profiler, on top of stepscope's recordings."""
