"""Pixels of pictures: colours within the range, hidden pixels, one width a pixel."""

import numpy as np

from lvmcore.export.picture_pixels import picture_colours, pixel_widths


def test_values_become_colours_that_are_clipped_to_the_range() -> None:
    row = np.array([0.0, 5.0, 10.0, -4.0, 14.0, 5.0])
    colours = picture_colours(row, (1, 2, 3), (0.0, 10.0), hidden="#FF0000")
    assert colours.dtype == np.uint8
    assert colours.tolist() == [[[0, 128, 255], [0, 255, 128]]]
    grey = picture_colours(row, (2, 3), (0.0, 10.0), hidden="#FF0000")
    assert grey[..., 0].tolist() == [[0, 128, 255], [0, 255, 128]]
    assert (grey == grey[..., :1]).all()
    assert picture_colours(np.ones(6), (1, 2, 3), (1.0, 1.0), hidden="#FF0000").tolist() == [
        [[0] * 3] * 2
    ]


def test_a_pixel_is_hidden_where_one_of_its_channels_is() -> None:
    row = np.array([0.0, np.nan, 10.0, 10.0, 10.0, 10.0])
    colours = picture_colours(row, (1, 2, 3), (0.0, 10.0), hidden="#102030")
    assert colours.tolist() == [[[16, 32, 48], [255] * 3]]
    grey = picture_colours(row, (2, 3), (0.0, 10.0), hidden="#102030")
    assert grey[0].tolist() == [[0] * 3, [16, 32, 48], [255] * 3]


def test_the_width_of_a_pixel_is_the_root_of_the_mean_variance_of_its_channels() -> None:
    sd = np.array([3.0, 4.0, 5.0, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(pixel_widths(sd, (1, 2, 3)), [[np.sqrt(50 / 3), 1.0]])
    np.testing.assert_array_equal(pixel_widths(sd, (3, 2)), sd.reshape(3, 2))
