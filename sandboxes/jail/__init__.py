"""What runs on the far side: shipped as source to a bare interpreter with an empty environment, so it needs the standard library only.

`server` takes requests and supervises runs, `program` is the child that locks itself in and becomes the program, `namespaces`,
`landlock` and `bpf` are the locks, `syscalls` the calls that Python lacks. Nothing here is imported by the trainer's process
except to read its source; it knows nothing of rewards or verifiers.
"""
