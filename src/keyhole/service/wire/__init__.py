"""What goes over the wire, described once for the server and the clients."""
