"""`ProfileOptionBuilder`: the ready-made options of the older profiler."""

from __future__ import annotations


class ProfileOptionBuilder:
    """Give options of the older profiler as plain dictionaries.

        options = ss.ProfileOptionBuilder.time_and_memory()
        options["max_depth"] = 5
        profiler.profile_name_scope(options=options)

    Keys and values are the older API's, `output` included: a view prints itself.
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
        """Show times and allocations, the longest time first.

        The older API left out what allocated nothing, too (`min_bytes=1`); most
        recordings hold no allocations, so here that has to be asked for.

        Args:
            min_micros: Only nodes with at least this time, in µs.
            min_bytes: Only nodes that asked for at least this many bytes.
            min_accelerator_micros: Only nodes with at least this time on devices, µs.
            min_cpu_micros: Only nodes with at least this time on hosts, in µs.
            min_peak_bytes: Has no meaning here; the view says so.
            min_residual_bytes: Has no meaning here; the view says so.
            min_output_bytes: Has no meaning here; the view says so.
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
        """Show the parameters of trained variables, by name."""
        return {
            **_common_options(),
            "account_type_regexes": ["_trainable_variables"],
            "order_by": "name",
            "select": ["params"],
        }

    @staticmethod
    def float_operation() -> dict[str, object]:
        """Show floating-point operations, the most first."""
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
