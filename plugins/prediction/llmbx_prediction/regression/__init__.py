"""The statistical part of a prediction: what published figures say about the terms of the roofline.

`features` describes configurations by numbers and names, `kernel` says how much two of them have in common,
`posterior` learns from published step times, `shipped` reads the calibrated values.
"""
