"""A contract over HTTP, for several analysts: the extra ``[server]``.

:func:`defray.service.app.build` makes the application, :mod:`defray.service.run` serves it.  Nothing
outside of this package imports FastAPI or pydantic.
"""
