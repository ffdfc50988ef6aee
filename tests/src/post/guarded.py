"""A mail server that takes letters by TLS and with a password alone, and keeps them in a Maildir.

Arguments: port, folder, PEM file with certificate and key, `starttls` or `tls`, user, password."""

import signal
import ssl
import sys

from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Mailbox
from aiosmtpd.smtp import AuthResult, LoginPassword

port, folder, pem, way, user, password = sys.argv[1:]
expected = LoginPassword(user.encode(), password.encode())


def authenticate(server, session, envelope, mechanism, given):
    # Not handled: the server itself answers one who is wrong.
    return AuthResult(success=given == expected, handled=False)


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(pem)
if way == "tls":
    tls = {"ssl_context": context, "auth_require_tls": False}
else:
    tls = {"tls_context": context, "require_starttls": True}
controller = Controller(
    Mailbox(folder), hostname="127.0.0.1", port=int(port), authenticator=authenticate, auth_required=True, **tls
)
controller.start()
signal.pause()
