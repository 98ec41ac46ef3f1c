"""A live page of a job: its boards, their history and how its stream is doing.

``feed`` holds what readers may see, ``history`` the windows that are remembered, ``app`` answers
requests, ``server`` listens. Nothing here knows Spark: whoever runs a stream tells the feed of it.
"""
