"""A slice of ``make fuzz``: damage of every kind of stored file is read back equal, or named, set aside and redone."""

from fuzzing import CHANGED, NAMED, fuzz


def test_damage_is_read_back_equal_or_named_and_redone():
    outcomes = fuzz(count=10, seed=20240506)
    assert sum(found.total() for found in outcomes.values()) >= 200
    for kind, found in outcomes.items():
        assert found[NAMED], kind  # damage that nothing notices was none
        assert "no checksums" in kind or not found[CHANGED], kind
