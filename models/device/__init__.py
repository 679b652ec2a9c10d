"""What a device needs: graphs, streams, spans of time, copies, threads, buckets."""
