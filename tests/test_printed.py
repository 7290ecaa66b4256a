"""Printed outputs are compared up to Monte Carlo error, and no further."""

from __future__ import annotations

import pytest

from tests.printed import missing

WIDE = """\
            mean     sd  eti89_lb  eti89_ub  ess_bulk  r_hat  \\
rate[1]    0.871  0.157     0.595     1.103  1497.548  1.003
rate[2]    3.056  0.306     2.574     3.559  2860.456  1.002

            mcse_mean  mcse_sd
rate[1]         0.004    0.003
rate[2]         0.006    0.005
""".splitlines()


@pytest.mark.parametrize(
    ("changes", "lost"),
    [
        ({"0.871": "0.875", "1497.548": "1417.118", "0.595": "0.594", "1.003": "1.001", "0.005": "0.004"}, 0),
        ({"0.871": "0.971"}, 1),
        ({"0.157": "0.257"}, 1),
        ({"1.003": "1.030"}, 1),
        ({"0.004": "0.040"}, 1),
        ({"rate[2]": "rate[3]"}, 2),
    ],
)
def test_wide_tables_are_compared_in_standard_deviations(changes, lost):
    text = "\n".join(WIDE)
    for old, new in changes.items():
        text = text.replace(old, new)
    assert len(missing(WIDE, text.splitlines())) == lost
