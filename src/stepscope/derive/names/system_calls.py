"""Calls of the operating system's libraries, by what a thread does in them.

A name such as `read` may also be a range of the program. Only events that their
producer marks as neither ops nor named ranges are therefore matched.

Definition: docs/definitions/host-time.md#calls-of-the-operating-system.
"""

from __future__ import annotations

from typing import Final

#: Pattern of a function and its variants (for large files, without locks, internal).
_CALL: Final = r"^(?:__)?(?:{})(?:64|_unlocked|_nocancel|_chk)?$"

#: Calls that wait for another thread or process, for data, or for time to pass.
_WAITS: Final = _CALL.format(
    r"pthread_(?:cond_(?:timed|clock)?wait|(?:timed|clock)?join(?:_np)?|barrier_wait"
    r"|mutex_(?:timed|clock)?lock|rwlock_(?:timed|clock)?(?:rd|wr)lock|spin_lock)"
    r"|sem_(?:timed|clock)?wait|futex\w*|p?poll|p?select|epoll_p?wait2?"
    r"|(?:clock_)?nanosleep|u?sleep|sched_yield|pause|sig(?:timed)?wait(?:info)?"
    r"|sigsuspend|wait[34]?|waitpid|waitid|accept4?|connect|recv(?:from|msg|mmsg)?"
    r"|msgrcv|mq_(?:timed)?receive|io_getevents|flock|lockf"
)
#: Calls that read files and pipes.
_READS: Final = _CALL.format(
    r"p?readv?2?|preadv2?|fread|fgets|fgetc|getc|getline|getdelim|readahead"
)
#: Other calls that may take long: of drivers, memory, files, processes and the network.
_OTHER_CALLS: Final = _CALL.format(
    r"ioctl|mmap2?|munmap|mremap|mprotect|madvise|mlock2?|munlock|brk|sbrk|msync"
    r"|open(?:at2?|dir)?|fopen|fdopen|freopen|close|fclose|closedir|readdir|scandir"
    r"|p?writev?2?|pwritev2?|fwrite|fputs|fputc|putc|fflush|fsync|fdatasync|sync|syncfs"
    r"|l?seek|fseeko?|ftell|rewind|f?truncate|fallocate|posix_fallocate|sendfile|splice"
    r"|[fl]?x?stat|fstatat|statx|access|unlink|rename|mkdir|fcntl|dup[23]?|pipe2?"
    r"|socket(?:pair)?|bind|listen|shutdown|send(?:to|msg|mmsg)?|msgsnd|mq_send"
    r"|pthread_(?:create|cond_(?:signal|broadcast)|kill|mutex_unlock)|sem_post"
    r"|v?fork|clone3?|posix_spawnp?|exec\w+|system|popen|pclose|kill"
    r"|sigaction|dlopen|shm_open|shmget|shmat|memfd_create|eventfd|epoll_c\w+|timerfd_\w+"
)
#: Class of host events → pattern of its calls; the first pattern that matches decides.
SYSTEM_CALLS: Final = {
    "SYSTEM_WAIT": _WAITS,
    "FILE_READ": _READS,
    "SYSTEM_CALL": _OTHER_CALLS,
}
