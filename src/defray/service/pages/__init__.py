"""The dashboard: the same service, for people with a browser.

Pages are rendered here and work for reading without scripts; the scripts complete what is typed and show
prices while it is.  What a page does goes through the functions of the API's own routes.
"""
