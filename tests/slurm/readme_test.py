#!/usr/bin/python3
"""deploy/README.md's "Slurm", executed as a reader would on a login node: what it shows is what happens."""

import os
import sys

import slurm_support

sys.path.insert(0, os.path.join(slurm_support.ROOT, "tests", "docs"))
import pages  # noqa: E402
import tour  # noqa: E402


class Readme(slurm_support.SlurmTest):
    def test_in_a_slurm_job(self):
        script = tour.script_of(tour.section_of(pages.text_of("deploy/README.md"), "Slurm"))
        os.makedirs(self.path("build"))
        os.symlink(self.slurm.machines.build, self.path("build", "install"))
        os.symlink(os.path.join(self.slurm.machines.build, "bin"), self.path("examples"))
        os.chown(self.path("build"), 65534, 65534)
        path = self.slurm.write(self.path("reader.sh"), script)
        done = self.slurm.user("bash", path, cwd=self.folder, check=False)
        logs = {name: self.read(name) for name in os.listdir(self.folder) if name.endswith(".log")}
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}\n{logs}")
        self.assert_nothing_left()


if __name__ == "__main__":
    slurm_support.main()
