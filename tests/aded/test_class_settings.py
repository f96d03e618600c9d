from importlib.metadata import EntryPoint, EntryPoints

import pytest

from aded import class_settings


def test_an_entry_point_names_a_method_and_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint(name="mine", value="my_package.drafter:Mine", group=class_settings.GROUP)
    monkeypatch.setattr(class_settings, "entry_points", lambda group: EntryPoints([entry]).select(group=group))
    assert class_settings.outside_drafters() == {"mine": "my_package.drafter.Mine"}


def test_without_other_packages_there_are_no_others() -> None:
    assert class_settings.outside_drafters() == {}
