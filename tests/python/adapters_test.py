#!/usr/bin/python3 -B
"""The adapters of the Python package: with the real packages where Debian has them, else by their published interfaces.

  adapters_test.py BUILD_FOLDER [unittest's arguments]

A package that is missing skips its class.
"""

import importlib
import multiprocessing
import os
import pathlib
import pickle
import sys
import unittest

import python_support
from python_support import Case, kvctl

build = folder = cluster = tidepool = numpy = None  # Set by main.


class AdapterCase(Case):
    packages = ()

    def setUp(self):
        for package in self.packages:
            if importlib.util.find_spec(package) is None:
                self.skipTest(f"apt-get install python3-{package}")
        super().setUp()
        self.t = tidepool.connect(cluster, timeout=60)
        self.addCleanup(self.t.close)


class FileSystemTest(AdapterCase):
    packages = ("fsspec",)

    def tree(self):
        source = folder / self.id().rsplit(".", 1)[1]
        for path, content in {"a.txt": b"alpha", "sub/b.bin": bytes(range(256)), "sub/deep/c": b"", "sub/deep/d": b"d" * 5000}.items():
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_bytes(content)
        m = self.make()
        kvctl("stage", "in", str(source), m.name)
        import fsspec
        from tidepool.adapters import filesystem  # pylint: disable=import-error,no-name-in-module
        self.assertIs(fsspec.get_filesystem_class("tidepool"), filesystem.TidepoolFileSystem)
        return m, fsspec.filesystem("tidepool", client=self.t, skip_instance_cache=True)

    def test_a_staged_tree_is_listed_and_read(self):
        m, fs = self.tree()
        self.assertEqual(fs.ls(m.name, detail=False), [f"{m.name}/a.txt", f"{m.name}/sub"])
        self.assertEqual(fs.find(m.name), [f"{m.name}/{path}" for path in ("a.txt", "sub/b.bin", "sub/deep/c", "sub/deep/d")])
        self.assertEqual(fs.find(f"{m.name}/sub", maxdepth=1), [f"{m.name}/sub/b.bin"])
        self.assertEqual(fs.glob(f"tidepool://{m.name}/sub/*/?"), [f"{m.name}/sub/deep/c", f"{m.name}/sub/deep/d"])
        self.assertEqual([(root, sorted(folders), sorted(files)) for root, folders, files in fs.walk(m.name)],
                         [(m.name, ["sub"], ["a.txt"]), (f"{m.name}/sub", ["deep"], ["b.bin"]),
                          (f"{m.name}/sub/deep", [], ["c", "d"])])
        self.assertTrue(fs.isdir(f"{m.name}/sub") and fs.isfile(f"{m.name}/sub/deep/d") and fs.isdir(m.name))
        self.assertEqual((fs.size(f"{m.name}/sub/deep/d"), fs.exists(f"{m.name}/none")), (5000, False))
        self.assertEqual(fs.cat(f"{m.name}/a.txt"), b"alpha")
        self.assertEqual(fs.cat_file(f"{m.name}/sub/b.bin", 3, 6), b"\3\4\5")
        with fs.open(f"{m.name}/sub/b.bin") as file:
            file.seek(-2, os.SEEK_END)
            self.assertEqual(file.read(), b"\xfe\xff")
        for path in (f"{m.name}/none", f"{m.name}/sub/none", "no_such_namespace/x"):
            with self.assertRaises(FileNotFoundError):
                fs.open(path)
        self.assertIn(m.name, fs.ls("", detail=False))

    def test_files_are_written_copied_and_removed(self):
        m, fs = self.tree()
        with fs.open(f"{m.name}/new/file", "wb") as file:
            file.write(b"part 1, ")
            file.write(b"part 2")
        with fs.open(f"{m.name}/new/file", "ab") as file:
            file.write(b", part 3")
        with self.assertRaises(ZeroDivisionError):
            with fs.open(f"{m.name}/new/broken", "wb") as file:
                file.write(b"half")
                file.write(1 / 0)
        self.assertEqual(fs.find(f"{m.name}/new"), [f"{m.name}/new/file"])
        fs.copy(f"{m.name}/new/file", f"{m.name}/copy")
        fs.rm(f"{m.name}/new", recursive=True)
        self.assertEqual((fs.exists(f"{m.name}/new"), m["copy"]), (False, b"part 1, part 2, part 3"))
        local = folder / "downloaded"
        fs.get(f"{m.name}/sub", str(local), recursive=True)
        self.assertEqual((local / "deep/d").read_bytes(), b"d" * 5000)
        with fs.open(f"{m.name}/text", "w") as file:  # fsspec's layer for text.
            file.write("grün\n")
        self.assertEqual(m["text"], "grün\n".encode())


class JoblibTest(AdapterCase):
    packages = ("joblib",)

    def test_a_function_runs_once_for_equal_arguments(self):
        import joblib
        from tidepool.adapters import cache  # pylint: disable=import-error,no-name-in-module
        m = self.make()
        self.assertIs(joblib.memory._STORE_BACKENDS["tidepool"], cache.StoreBackend)
        calls = []

        def scaled(array, factor=2):
            calls.append(factor)
            return array * factor

        for _ in range(2):  # The second Memory is another process's.
            memory = joblib.Memory(m.name, backend="tidepool", verbose=0, backend_options={"client": self.t})
            function = memory.cache(scaled)
            numpy.testing.assert_array_equal(function(numpy.arange(1000)), numpy.arange(1000) * 2)
            numpy.testing.assert_array_equal(function(numpy.arange(1000), 3), numpy.arange(1000) * 3)
        self.assertEqual(calls, [2, 3])
        self.assertTrue(memory.cache(scaled).check_call_in_cache(numpy.arange(1000), 3))
        self.assertTrue(memory.store_backend.get_items())
        function.clear(warn=False)
        function(numpy.arange(1000))
        self.assertEqual(calls, [2, 3, 2])
        memory.clear(warn=False)
        self.assertEqual(len(m), 0)


class DaskTest(AdapterCase):
    packages = ("dask", "joblib")

    def test_tasks_that_have_run_are_not_run_again(self):
        import dask
        from tidepool.adapters.cache import TaskCache  # pylint: disable=import-error,no-name-in-module
        m = self.make()
        runs = []

        @dask.delayed(pure=True)
        def square(number):
            runs.append(number)
            return number * number

        for _ in range(2):
            with TaskCache(m):
                self.assertEqual(dask.compute(*[square(i) for i in range(5)], scheduler="sync"), (0, 1, 4, 9, 16))
        self.assertEqual(sorted(runs), list(range(5)))
        with TaskCache(m, bytes_max=1):
            self.assertEqual(dask.compute(square(7), square(3), scheduler="threads"), (49, 9))
        self.assertEqual(len(m), 5)


class ZarrTest(AdapterCase):
    packages = ("zarr",)

    def test_arrays_and_groups_live_in_a_namespace(self):
        import zarr
        from tidepool.adapters.zarr_store import ZarrStore  # pylint: disable=import-error,no-name-in-module
        m = self.make()
        store = ZarrStore(m, "run 1/")
        group = zarr.open_group(store, "w")
        array = group.create_dataset("field", shape=(100, 90), chunks=(30, 40), dtype="f8")
        array[:] = numpy.arange(9000.0).reshape(100, 90)
        array[5:40, 80:] = -1
        group.attrs["title"] = "heat"
        other = zarr.open_group(ZarrStore(m, "run 1/"), "r")
        expected = numpy.arange(9000.0).reshape(100, 90)
        expected[5:40, 80:] = -1
        numpy.testing.assert_array_equal(other["field"][:], expected)
        numpy.testing.assert_array_equal(other["field"][20:70:3, 33:50], expected[20:70:3, 33:50])
        self.assertEqual((list(other), other.attrs["title"], sorted(store.listdir())), (["field"], "heat", [".zattrs", ".zgroup", "field"]))
        self.assertEqual(len(zarr.open_group(ZarrStore(m, "run 2/"), "w")), 0)
        self.assertGreater(store.getsize("field"), 0)
        del group["field"]
        self.assertEqual(sorted(store), [".zattrs", ".zgroup"])
        store.clear()
        self.assertEqual([record.key for record in m.scan()], [b"run 2/.zgroup"])


class OptunaTest(AdapterCase):
    packages = ("optuna",)

    def test_a_study_is_shared_and_entries_have_no_gaps(self):
        import optuna
        from tidepool.adapters.optuna_journal import JournalBackend  # pylint: disable=import-error,no-name-in-module
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        m = self.make()
        backends = [JournalBackend(m), pickle.loads(pickle.dumps(JournalBackend(m)))]
        studies = [optuna.create_study(study_name="s", storage=optuna.storages.JournalStorage(backend), load_if_exists=True)
                   for backend in backends]
        for study in studies:
            study.optimize(lambda trial: (trial.suggest_float("x", -5, 5) - 1) ** 2, n_trials=10)
        self.assertEqual(len(studies[0].trials), 20)
        self.assertEqual(studies[0].best_value, studies[1].best_value)
        logs = JournalBackend(m).read_logs(0)
        self.assertEqual(JournalBackend(m).read_logs(len(logs) - 3), logs[-3:])
        self.assertEqual(sum(1 for _ in m.scan("journal/[0-9]*")), len(logs))
        backends[0].save_snapshot(b"state")
        self.assertEqual(backends[1].load_snapshot(), b"state")

    def test_writers_in_other_processes_lose_no_entry(self):
        m = self.make()
        context = multiprocessing.get_context("spawn")
        with context.Pool(3) as pool:
            pool.map(append_journal, [(m, writer) for writer in range(3)])
        from tidepool.adapters.optuna_journal import JournalBackend  # pylint: disable=import-error,no-name-in-module
        logs = JournalBackend(m).read_logs(0)
        self.assertEqual(sorted((log["writer"], log["i"]) for log in logs),
                         [(writer, i) for writer in range(3) for i in range(100)])
        for writer in range(3):
            self.assertEqual([log["i"] for log in logs if log["writer"] == writer], list(range(100)))


def append_journal(work):
    from tidepool.adapters.optuna_journal import JournalBackend  # pylint: disable=import-error,no-name-in-module
    m, writer = work
    backend = JournalBackend(m)
    for i in range(0, 100, 2):
        backend.append_logs([{"writer": writer, "i": i}, {"writer": writer, "i": i + 1}])


class SimaiBenchTest(AdapterCase):
    def test_the_four_calls(self):
        from tidepool.adapters.simai_bench import DataStore  # pylint: disable=import-error,no-name-in-module
        store = DataStore(self.make())
        for data in (numpy.arange(100_000, dtype="f4").reshape(10, -1), {"steps": 7}, "kill_sim", numpy.array([None, "x"])):
            self.assertFalse(store.poll_staged_data("sim_0_1", client_id=3, is_local=True))
            store.stage_write("sim_0_1", data, client_id=3, is_local=True)
            self.assertTrue(store.poll_staged_data("sim_0_1"))
            numpy.testing.assert_array_equal(store.stage_read("sim_0_1", timeout=10), data)
            store.clean_staged_data("sim_0_1")
        store.clean_staged_data("sim_0_1")
        with self.assertRaises(KeyError):
            store.stage_read("sim_0_1")
        with self.assertRaises(TimeoutError):
            store.stage_read("sim_0_1", timeout=0.01)


class ProxystoreTest(AdapterCase):
    def test_the_methods_of_the_protocol(self):
        from tidepool.adapters.proxystore import TidepoolConnector  # pylint: disable=import-error,no-name-in-module
        with TidepoolConnector("proxystore_objects", str(cluster), ttl=60, clear=True) as connector:
            key = connector.put(b"object")
            with TidepoolConnector.from_config({**connector.config(), "clear": False}) as other:  # Another process's.
                self.assertEqual((other.get(pickle.loads(pickle.dumps(key))), other.exists(key)), (b"object", True))
            keys = connector.put_batch([b"a", b"b", b"c"])
            connector.evict(keys[1])
            connector.evict(keys[1])
            self.assertEqual(connector.get_batch([*keys, key]), [b"a", None, b"c", b"object"])
            self.assertEqual((connector.get(keys[1]), connector.exists(keys[1])), (None, False))
            later = connector.new_key()
            self.assertFalse(connector.exists(later))
            connector.set(later, b"later")
            self.assertEqual(connector.get(later), b"later")
            self.assertEqual(len(set(keys)), 3)
        self.assertEqual(len(self.t["proxystore_objects"]), 0)
        self.t.drop("proxystore_objects")


class BlockTest(AdapterCase):
    def test_the_longest_stored_prefix_comes_in_one_call(self):
        from tidepool.adapters.blocks import BlockStore  # pylint: disable=import-error,no-name-in-module
        m = self.make()
        store = BlockStore(m, "model", 16, (2, 4, 8), "f4")
        tokens = numpy.arange(100)  # Six whole blocks.
        blocks = numpy.random.default_rng(3).random((6, 2, 4, 8)).astype("f4")
        store.put(tokens, blocks[:4])
        self.assertEqual((store.contains(tokens), store.contains(tokens[:40])), (64, 32))
        count, found = store.get(tokens)
        self.assertEqual(count, 64)
        numpy.testing.assert_array_equal(found, blocks[:4])
        out = numpy.zeros((6, 2, 4, 8), "f4")
        store.put(tokens, blocks[4:], first=4)
        count, found = store.get(tokens, out=out)
        self.assertEqual((count, found.base is out), (96, True))
        numpy.testing.assert_array_equal(out, blocks)
        other = tokens.copy()
        other[20] = -1  # In the second block: the blocks behind it are others, too.
        self.assertEqual((store.contains(other), store.get(other)[0]), (16, 16))
        self.assertEqual(BlockStore(m, "other model", 16, (2, 4, 8), "f4").contains(tokens), 0)
        self.assertEqual((store.get([])[0], store.get(tokens[:5])[0]), (0, 0))
        with self.assertRaises(ValueError):
            store.put(tokens, blocks[:, :1])
        m.delete_many(store.keys(tokens)[2:3])
        self.assertEqual((store.contains(tokens), store.get(tokens)[0]), (32, 32))
        store.remove(tokens)
        self.assertEqual(len(m), 0)


class PageTest(unittest.TestCase):
    def test_the_table_has_each_adapter_with_its_lines(self):
        text = (python_support.ROOT / "client/python/README.md").read_text(encoding="utf-8")
        for module in (python_support.ROOT / "client/python/tidepool/adapters").glob("[a-z]*.py"):
            lines = len(module.read_text(encoding="utf-8").splitlines())
            self.assertLessEqual(lines, 300)
            self.assertRegex(text, rf"\| `{module.stem}` \|.*\| {lines} \|")


if __name__ == "__main__":
    sys.exit(python_support.main(sys.modules[__name__]))
