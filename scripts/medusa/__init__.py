"""What Medusa's heads are trained on."""
