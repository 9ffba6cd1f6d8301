#!/bin/sh
# An array of Slurm: eight tasks, each with a shard of the rows. A task that is requeued goes on where it was.
#SBATCH --job-name=answers
#SBATCH --array=0-7
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=answers-%a.log

# With the number of shards, so that `sbatch --array=3,5` starts single ones again. Exit code 4: done, some rows carry
# an error.
spillway generate --shard env/8 --model "${MODEL:-model.gguf}" \
  --input "${INPUT:-questions.csv}" --output "${OUTPUT:-answers.csv}" --resume || [ $? = 4 ]
