#!/bin/bash
# A batch job with Tidepool: copy it, and change what is marked.
#
#   sbatch job.sh INPUTS RESULTS
#
# One daemon per node; INPUTS becomes the namespace `inputs` before the program runs, and the namespace
# `results`, which the program makes, is in RESULTS when it has ended, when the walltime is about to end, and after
# scancel.
#SBATCH --job-name=tidepool
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --time=01:00:00
# A node that crashes does not end the job: the daemons and the program are told.
#SBATCH --no-kill
# Where the site has the burst-buffer plug-in of deploy/slurm, these lines are checked by sbatch, and are in
# $TIDEPOOL_RUN_OPTIONS; there they stand in the place of the options below.
##KV memory 50%
##KV stage_in /scratch/me/in:inputs
##KV stage_out results:/scratch/me/out
set -euo pipefail
inputs=$(readlink -f -- "${1:?usage: sbatch job.sh INPUTS RESULTS}")
results=$(readlink -m -- "${2:?usage: sbatch job.sh INPUTS RESULTS}")

options=(${TIDEPOOL_RUN_OPTIONS:---memory 50%})
# Where the site has the prolog of deploy/slurm each node has a folder of its own disk for the job.
# options+=(--nvm-dir "/local/tidepool-$SLURM_JOB_ID" --nvm-size 200GiB)

# `exec`, so that Slurm's signals reach kvctl and nothing waits for it. Change the program.
exec kvctl run "${options[@]}" --stage-in "$inputs:inputs" --stage-out "results:$results" -- \
  srun "${PROGRAM:-./simulate}"
