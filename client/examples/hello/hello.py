#!/usr/bin/python3
"""The smallest useful program in Python: connect, store records, count, read back.

  hello.py [NAMESPACE]
"""

import sys

import tidepool

with tidepool.connect() as client:  # Finds the cluster by itself.
    records = client.create(sys.argv[1] if len(sys.argv) > 1 else "greetings")
    records.put_many((f"greeting{i}", f"hello {i}") for i in range(100))
    run = records.fetch_add("runs") + 1
    print(f"{records['greeting7'].decode()}; this is run {run}")
