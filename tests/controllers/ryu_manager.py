"""Ryu's manager with a version of eventlet that runs on today's Python.

Ryu 4.34 imports a constant that eventlet no longer has, for its web server, which is not used here.
The arguments are those of `ryu-manager`.
"""

import sys

import eventlet.wsgi

eventlet.wsgi.ALREADY_HANDLED = object()

from ryu.cmd.manager import main  # noqa: E402

sys.exit(main())
