"""Charts as text (pure): the record drawn as inline SVG, coloured by the stylesheet."""
