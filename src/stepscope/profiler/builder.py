"""`ProfileOptionBuilder`: predefined options of TensorFlow's older profiler."""

from __future__ import annotations


class ProfileOptionBuilder:
    """Returns options of TensorFlow's older profiler as plain dictionaries.

        options = ss.ProfileOptionBuilder.time_and_memory()
        options["max_depth"] = 5
        profiler.profile_name_scope(options=options)

    Keys and values are those of the older API. By default, the option `output` makes a
    view print itself.
    """

    @staticmethod
    def time_and_memory(
        *,
        min_micros: float = 1,
        min_bytes: int = 0,
        min_accelerator_micros: float = 0,
        min_cpu_micros: float = 0,
        min_peak_bytes: int = 0,
        min_residual_bytes: int = 0,
        min_output_bytes: int = 0,
    ) -> dict[str, object]:
        """Return options to show times and allocations, the longest time first.

        The older API omitted nodes without allocations (`min_bytes=1`). Most recordings
        have no allocations, so `min_bytes` is 0 here.

        Args:
            min_micros: Minimum time of a node, in µs.
            min_bytes: Minimum number of bytes that a node allocated.
            min_accelerator_micros: Minimum time of a node on devices, in µs.
            min_cpu_micros: Minimum time of a node on hosts, in µs.
            min_peak_bytes: Ignored; the view has a note about it.
            min_residual_bytes: Ignored; the view has a note about it.
            min_output_bytes: Ignored; the view has a note about it.
        """
        return {
            **_common_options(),
            "min_micros": min_micros,
            "min_bytes": min_bytes,
            "min_accelerator_micros": min_accelerator_micros,
            "min_cpu_micros": min_cpu_micros,
            "min_peak_bytes": min_peak_bytes,
            "min_residual_bytes": min_residual_bytes,
            "min_output_bytes": min_output_bytes,
            "order_by": "micros",
            "select": ["micros", "bytes"],
        }

    @staticmethod
    def trainable_variables_parameter() -> dict[str, object]:
        """Return options to show the parameters of trained variables, by name."""
        return {
            **_common_options(),
            "account_type_regexes": ["_trainable_variables"],
            "order_by": "name",
            "select": ["params"],
        }

    @staticmethod
    def float_operation() -> dict[str, object]:
        """Return options to show floating-point operations, sorted by their count."""
        return {
            **_common_options(),
            "min_float_ops": 1,
            "order_by": "float_ops",
            "select": ["float_ops"],
        }


def _common_options() -> dict[str, object]:
    return {
        "max_depth": 10_000,
        "min_bytes": 0,
        "min_micros": 0,
        "min_params": 0,
        "min_float_ops": 0,
        "min_occurrence": 0,
        "account_type_regexes": [".*"],
        "start_name_regexes": [".*"],
        "trim_name_regexes": [],
        "show_name_regexes": [".*"],
        "hide_name_regexes": [],
        "account_displayed_op_only": True,
        "step": -1,
        "output": "stdout",
    }
