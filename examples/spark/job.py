"""Turn files of asks and answers into files of sets, with Spark: the second command.

    python examples/spark/job.py out/spark

It processes the files that are there, and stops. Killed at any moment and restarted, it continues from
its checkpoint: no set is lost, none is written twice. With ``--stay`` it waits for more files.
"""

import os
import sys
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from keyhole.integrations.spark import streams

ASKS = "shop STRING, id STRING, at TIMESTAMP, output MAP<STRING, DOUBLE>"
ANSWERS = "shop STRING, id STRING, at TIMESTAMP, label STRING"


def main(folder: Path, *, stay: bool) -> None:
    """Run the query over the folder's files."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or the workers may use another Python
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")  # or every new key logs a warning
    source = spark.readStream.option("maxFilesPerTrigger", 1)
    sets = streams(
        source.schema(ASKS).json(str(folder / "asks")),
        source.schema(ANSWERS).json(str(folder / "answers")),
        key="shop",
        alpha=0.1,
        seed=7,
        lifetime=timedelta(hours=1),
        delay="10 minutes",
    )
    writer = sets.writeStream.format("json").option("path", str(folder / "sets"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.start() if stay else writer.trigger(availableNow=True).start()
    query.awaitTermination()
    written = spark.read.json(str(folder / "sets"))
    written.groupBy("kind").count().orderBy("kind").show()
    written.coalesce(1).write.mode("overwrite").json(str(folder / "all"))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), stay="--stay" in sys.argv)
