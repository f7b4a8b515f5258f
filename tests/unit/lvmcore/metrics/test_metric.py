"""A metric with the dimensions that it is for, and one that names none."""

from lvmcore.metrics.metric import Metric, name_dimensions, shown_key


def test_a_metric_of_positions_is_named_with_its_dimensions() -> None:
    assert Metric("continuity", 0.5, "how", "dimensions 1 and 3").name == (
        "continuity, dimensions 1 and 3"
    )
    assert Metric("held-out NLPD", 0.5, "how").name == "held-out NLPD"
    assert shown_key("continuity") == "shown_continuity"


def test_a_stored_metric_that_names_no_dimensions_is_for_all_of_them() -> None:
    bare, named = Metric("m", 0.5, "how"), Metric("m", 0.5, "how", "all 10 dimensions")
    stored = {
        "trustworthiness": bare,
        "knn_accuracy: size": bare,
        "continuity": named,
        "held_out_nlpd": bare,
    }
    found = name_dimensions(stored)
    assert list(found) == list(stored)
    dimensions = {key: metric.dimensions for key, metric in found.items()}
    assert dimensions == {
        "trustworthiness": "all dimensions",
        "knn_accuracy: size": "all dimensions",
        "continuity": "all 10 dimensions",
        "held_out_nlpd": "",
    }
