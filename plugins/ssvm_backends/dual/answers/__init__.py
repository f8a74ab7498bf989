"""What dual messages give: labellings, where the bound is attained, and bounds of single states."""
