"""The table of planted faults fits the code and names every kind of bug that it must."""

from pathlib import Path

import pytest
import table

ROOT = Path(__file__).parents[1]

MASKS_AND_SOFTMAX = [
    "B01",
    "B02",
    "B04",
    "B06",
    "B08",
    "B09",
    "B11",
    "B13",
    "B14",
    "B15",
    "B17",
    "B18",
]
SCALE = ["B20", "B21", "B22", "B23", "B25", "B27"]
TOKENIZER = ["B70", "B72", "B74", "B76"]
CACHES = ["B30", "B32", "B33", "B34", "B36", "B38", "B39", "B3A", "B3C", "B3D", "B3E"]
WINDOWS = ["B40", "B43"]
SHARED_AND_LATENT = ["B50", "B52", "B53", "B55", "B57", "B59"]
POSITIONS = ["B38", "B61", "B62", "B63", "B65", "B67", "B68"]


@pytest.mark.parametrize(
    "bug",
    MASKS_AND_SOFTMAX + SCALE + CACHES + WINDOWS + SHARED_AND_LATENT + POSITIONS + TOKENIZER,
)
def test_every_kind_of_reported_bug_is_planted(bug):
    assert any(fault.bug == bug for fault in table.FAULTS)


@pytest.mark.parametrize("fault", table.FAULTS, ids=lambda fault: fault.name)
def test_what_a_fault_replaces_stands_exactly_once(fault):
    text = (ROOT / fault.file).read_text(encoding="utf-8")
    for old, new in fault.edits:
        assert text.count(old) == 1
        assert old != new
    assert (ROOT / fault.test).is_file()


def test_no_two_faults_have_the_same_name():
    names = [fault.name for fault in table.FAULTS]
    assert len(set(names)) == len(names)
