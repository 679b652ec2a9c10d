"""Settings of the process, held by runs whose times overlap."""

from __future__ import annotations

import threading

import pytest

from tts_cli.engine.load import ScopedSetting, read_tf32, write_tf32


def test_the_last_one_puts_it_back() -> None:
    value = ["user's"]
    setting = ScopedSetting(lambda: value[0], lambda new: value.__setitem__(0, new), "ours")
    setting.hold()
    assert value == ["ours"]
    with setting.held():
        setting.release()  # the first one ends before the second
        assert value == ["ours"]
    assert value == ["user's"]
    with pytest.raises(KeyError), setting.held():
        raise KeyError
    assert value == ["user's"]
    value[0] = "another"
    with setting.held():
        assert value == ["ours"]
    assert value == ["another"]


def test_many_threads_hold_it() -> None:
    value = [1]
    setting = ScopedSetting(lambda: value[0], lambda new: value.__setitem__(0, new), 2)
    seen: set[int] = set()

    def use() -> None:
        for _ in range(500):
            with setting.held():
                seen.add(value[0])

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (seen, value) == ({2}, [1])


def test_tf32_is_off_while_it_is_held() -> None:
    before = read_tf32()
    write_tf32((True, False))
    setting = ScopedSetting(read_tf32, write_tf32, (False, False))
    try:
        with setting.held():
            assert read_tf32() == (False, False)
        assert read_tf32() == (True, False)
    finally:
        write_tf32(before)
